terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = "a"
  size = 1
  tags = { a = "1", b = "2" }
  lifecycle {
    ignore_changes = [size, tags["a"]]
  }
}

resource "lab_thing" "b" {
  name = "b"
  lifecycle {
    ignore_changes = all
  }
}
