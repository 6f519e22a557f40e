variable "on" {
  default = true
}

resource "terraform_data" "a" {
  input = "a"
  lifecycle {
    enabled = var.on
  }
}

module "m" {
  source = "./m"
  lifecycle {
    enabled = var.on
  }
}

output "a" {
  value = try(terraform_data.a.output, "off")
}
