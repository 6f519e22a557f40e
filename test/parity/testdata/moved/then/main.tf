resource "terraform_data" "renamed" {
  input = "a"
}

moved {
  from = terraform_data.a
  to   = terraform_data.renamed
}

resource "terraform_data" "b" {
  for_each = toset(["zero", "one"])
  input    = each.key == "zero" ? "b0" : "changed"
}

moved {
  from = terraform_data.b[0]
  to   = terraform_data.b["zero"]
}

moved {
  from = terraform_data.b[1]
  to   = terraform_data.b["one"]
}

module "n" {
  source = "./m"
  count  = 1
}

moved {
  from = module.m
  to   = module.n[0]
}
