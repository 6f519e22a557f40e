terraform {
  required_providers {
    random = {
      source = "hashicorp/random"
    }
  }
}

variable "names" {
  type = map(string)
}

variable "secret" {
  type      = string
  sensitive = true
  default   = "hush"
}

variable "extra" {
  type    = number
  default = 1
}

resource "terraform_data" "node" {
  for_each = var.names
  input    = { name = each.key, text = each.value, path = path.module }
}

resource "terraform_data" "count" {
  count            = var.extra
  input            = var.secret
  triggers_replace = [count.index]
}

resource "random_integer" "port" {
  min = 7
  max = 7
}

module "inner" {
  source = "./modules/inner"
  text   = terraform_data.node["a"].output.text
}

check "names" {
  assert {
    condition     = length(var.names) > 0
    error_message = "There should be names."
  }
}

output "texts" {
  value = { for k, n in terraform_data.node : k => n.output.text }
}

output "secret" {
  value     = var.secret
  sensitive = true
}

output "inner" {
  value = module.inner.text
}

output "port" {
  value = random_integer.port.result
}
