data "terraform_remote_state" "named" {
  backend = "http"
  config  = {}
}
