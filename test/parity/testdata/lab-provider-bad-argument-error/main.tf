terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

provider "lab" {
  regio = "x"
}

resource "lab_thing" "a" {
  nam  = "a"
  size = "many"
}
