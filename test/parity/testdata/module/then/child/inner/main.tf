variable "name" {}

resource "null_resource" "a" {
  triggers = { name = "${var.name}!" }
}

output "name" {
  value = null_resource.a.triggers.name
}
