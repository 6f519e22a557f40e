module "m" {
  source = "git::https://example.com/m.git"
}
