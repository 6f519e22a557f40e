terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = "a"
}

resource "lab_thing" "b" {
  name = "b"
  any  = "text"
  spec = { image = "i" }
  tags = {}
  rule {
    from = "x"
  }
}
