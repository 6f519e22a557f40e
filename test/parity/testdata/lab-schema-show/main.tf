terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = "a"
}
