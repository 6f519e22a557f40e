terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = "a"
  size = 3
}

resource "lab_thing" "b" {
  name = "b-${lab_thing.a.later}"
  lifecycle {
    create_before_destroy = true
  }
}
