terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "lab_thing" "a" {
  name = provider::lab::upper("abc", "def")
}

output "terraform" {
  value = provider::terraform::encode_expr({ a = [1, "x", null] })
}

output "tfvars" {
  value = provider::terraform::decode_tfvars("a = 1\nb = [\"c\"]")
}

output "encoded" {
  value = provider::terraform::encode_tfvars({ a = 1, b = "c" })
}
