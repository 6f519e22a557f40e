terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

import {
  to = lab_thing.a
  id = "fail-import"
}

resource "lab_thing" "a" {
  name = "fail-import"
}
