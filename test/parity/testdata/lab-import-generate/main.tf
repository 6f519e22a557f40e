terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

import {
  to = lab_thing.a
  id = "imported"
}
