terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = "a"
}

resource "lab_thing" "b" {
  name = lab_thing.a.later
  lifecycle {
    create_before_destroy = true
  }
}
