terraform {
  required_providers {
    lab = {
      source  = "example/lab"
      version = "~> 0.1"
    }
  }
}

resource "lab_thing" "a" {
  name = "a"
}
