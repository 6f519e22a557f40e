module github.com/hashicorp/go-kms-wrapping/wrappers/alicloudkms/v2

go 1.20
