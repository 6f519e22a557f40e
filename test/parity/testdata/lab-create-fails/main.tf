terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = "a"
}

resource "lab_thing" "f" {
  name = "fail-create"
  tags = { a = lab_thing.a.id }
}

resource "lab_thing" "after" {
  name = lab_thing.f.id
}

output "o" {
  value = lab_thing.f.id
}
