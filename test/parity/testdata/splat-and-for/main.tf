variable "users" {
  default = [{ name = "a", roles = ["r", "w"] }, { name = "b", roles = [] }]
}

locals {
  by_name = { for u in var.users : u.name => u }
  grouped = { for u in var.users : length(u.roles) > 0 ? "some" : "none" => u.name... }
  pairs   = flatten([for u in var.users : [for r in u.roles : "${u.name}:${r}"]])
}

resource "terraform_data" "u" {
  for_each = local.by_name
  input    = each.value
}

output "grouped" {
  value = local.grouped
}

output "pairs" {
  value = local.pairs
}

output "roles" {
  value = var.users[*].roles
}

output "missing" {
  value = try(local.by_name["c"].name, "none")
}
