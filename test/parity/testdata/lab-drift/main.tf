terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "d" {
  name = "drift-1"
}

resource "lab_thing" "g" {
  name = "gone-1"
}

output "size" {
  value = lab_thing.d.size
}
