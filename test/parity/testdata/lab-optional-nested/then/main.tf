terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = "a"
  any  = 5
  spec = { image = "i", ports = [] }
  tags = { k = null }
  rule {
    from = "x"
    key  = "sensitive"
  }
}

resource "lab_thing" "b" {
  name   = "b"
  secret = sensitive("x")
}
