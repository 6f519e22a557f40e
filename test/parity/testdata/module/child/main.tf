variable "name" {
  type = string
}

variable "size" {
  type    = number
  default = 1
}

resource "terraform_data" "a" {
  input = { name = var.name, size = var.size, path = path.module }
}

module "inner" {
  source = "./inner"
  name   = var.name
}

output "name" {
  value = module.inner.name
}

output "size" {
  value = var.size
}
