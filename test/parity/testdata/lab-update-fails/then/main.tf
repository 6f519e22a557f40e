terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = "fail-update"
  size = 9
}

resource "lab_thing" "b" {
  name = "renamed"
}
