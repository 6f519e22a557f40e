terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = "a"
}

resource "lab_thing" "b" {
  name = "b-${lab_thing.a.later}"
}
