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
  old  = "o"
}

resource "lab_thing" "b" {
  name = "b-${lab_thing.a.id}"
  size = 300
  old  = "o"
}

data "lab_echo" "w" {
  say = "warn"
}
