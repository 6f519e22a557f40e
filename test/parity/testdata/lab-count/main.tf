terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  count = 12
  name  = format("n%02d", count.index)
  size  = count.index
}
