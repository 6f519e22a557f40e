terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

import {
  to       = lab_thing.a
  identity = { name = "known" }
}

resource "lab_thing" "a" {
  name = "known"
}
