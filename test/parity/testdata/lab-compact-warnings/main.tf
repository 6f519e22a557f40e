terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

provider "lab" {
  old = "x"
}

resource "lab_thing" "a" {
  name = "a"
  size = 200
}
