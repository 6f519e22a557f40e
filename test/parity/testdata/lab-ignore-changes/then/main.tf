terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = "a"
  size = 5
  tags = { a = "9", b = "9" }
  lifecycle {
    ignore_changes = [size, tags["a"]]
  }
}

resource "lab_thing" "b" {
  name = "other"
  size = 4
  lifecycle {
    ignore_changes = all
  }
}
