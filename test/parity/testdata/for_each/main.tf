locals {
  things = {
    one = { size = 1, tags = ["a", "b"] }
    two = { size = 2, tags = [] }
  }
}

resource "terraform_data" "a" {
  for_each = local.things
  input    = each.value
}

resource "terraform_data" "b" {
  for_each         = toset(["x", "y z", "ü\"q"])
  input            = each.key
  triggers_replace = [each.value, terraform_data.a["one"].id]
}

output "inputs" {
  value = { for k, v in terraform_data.a : k => v.output }
}
