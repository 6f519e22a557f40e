locals {
  things = {
    two   = { size = 22, tags = ["new"] }
    three = { size = 3, tags = [] }
  }
}

resource "terraform_data" "a" {
  for_each = local.things
  input    = each.value
}

output "inputs" {
  value = { for k, v in terraform_data.a : k => v.output }
}
