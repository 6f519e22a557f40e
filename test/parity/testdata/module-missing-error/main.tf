module "m" {
  source = "./nope"
}
