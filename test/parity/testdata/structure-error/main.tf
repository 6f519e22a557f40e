resource "terraform_data" {
}

resource "terraform_data" "a" {
  lifecycle {
    prevent_destroy = maybe
  }
}

unknown_block "x" {
}

variable "v" {
  type = strin
}

output "o" {
}
