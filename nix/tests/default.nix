# NixOS VM tests, which need nixpkgs and KVM: `nix flake check`, or
# `nix-build nix/tests -A k8s`.
{
  pkgs ? import <nixpkgs> { },
}:
let
  yuba = import ../. { inherit pkgs; };
  run = file: pkgs.testers.runNixOSTest (import file { inherit pkgs yuba; });
in
{
  # User stories 1 and 2: deploy, no changes, isolation, a deploy that fails and is set back.
  k8s = run ./k8s.nix;
  # SPIRE: the agent of a pod gets the identity of its host; a destroy takes it back.
  spire = run ./spire.nix;
}
