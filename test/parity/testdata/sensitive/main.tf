variable "password" {
  type      = string
  sensitive = true
  default   = "hunter2"
}

resource "terraform_data" "a" {
  input = { user = "u", password = var.password }
}

output "password" {
  value     = var.password
  sensitive = true
}

output "open" {
  value = nonsensitive(terraform_data.a.output.user)
}

output "made" {
  value     = { a = sensitive("x"), b = "y" }
  sensitive = true
}
