data "terraform_remote_state" "missing" {
  backend = "local"
  config = {
    path = "missing.tfstate"
  }
}
