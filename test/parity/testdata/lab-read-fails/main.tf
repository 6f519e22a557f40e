terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = "fail-read"
}

data "lab_echo" "e" {
  say        = "x"
  depends_on = [lab_thing.a]
}
