terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = "fail-update"
}

resource "lab_thing" "b" {
  name = "fail-delete"
}
