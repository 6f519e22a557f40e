terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

provider "lab" {
  region = "nowhere"
}

resource "lab_thing" "a" {
  name = "a"
}
