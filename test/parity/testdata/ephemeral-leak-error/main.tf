variable "secret" {
  ephemeral = true
  default   = "x"
}

resource "terraform_data" "a" {
  input = var.secret
}

output "o" {
  value = var.secret
}
