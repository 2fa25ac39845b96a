import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { createRequire } from 'node:module'
import { it } from 'node:test'
import { tlsEndPoint } from './tls-end-point.ts'

/** Of node-postgres, as it binds its own logins; it has no types. */
const client = createRequire(import.meta.url)('pg/lib/crypto/cert-signatures.js') as {
  signatureAlgorithmHashFromCertificate(certificate: Buffer): string
}

const CERTIFICATES = {
  sha256:
    'MIIBcDCCARWgAwIBAgIUHVOk0ucm0F3G9i/yNSziwa5hrgYwCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBYTAgFw0yNjExMjgxOTM1MjlaGA8yMTI2MTEwNDE5MzUyOVowDDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKvgin3vI04J0LJZ1Di/NKKnqVyDOaGUjFDoSD1w0JdJ9GfSMkaXmcgggtYYGHX36SecBtRErDsoSg+vcBx96KmjUzBRMB0GA1UdDgQWBBRPX/VAFhl0N0aU7LVyoS1g5LIy+jAfBgNVHSMEGDAWgBRPX/VAFhl0N0aU7LVyoS1g5LIy+jAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQCGi/XioswjcICnwQogPiDsXgeGKV9Xkbm86y/Au8WsZAIhAOkq5D8c0UuRBP8la4ZfLownAfD3din/k4g3U/5rDoQq',
  sha384:
    'MIIBbzCCARWgAwIBAgIUV1/DYDkKdB6wmDxOKjvif9w1ZYQwCgYIKoZIzj0EAwMwDDEKMAgGA1UEAwwBYTAgFw0yNjExMjgxOTM1MjlaGA8yMTI2MTEwNDE5MzUyOVowDDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABM3JUNnC8O+8Jl3zyf0Pmbvh5+CNvoAvyE1Lfq78Lgkxa0zD6b3qTt9czfN2b2TyxtcVQD45ywbYhb2q1HOq/cSjUzBRMB0GA1UdDgQWBBTWX6e8JPiKWgwLmgr5oQ0QsGjbrTAfBgNVHSMEGDAWgBTWX6e8JPiKWgwLmgr5oQ0QsGjbrTAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMDA0gAMEUCIQDQ0TqOuwDNHm6hvAKlh4q/flG0GZEeJfKoxVeV3uVpawIgIugyqWpjgL+w9fiuFUKzf3LB7ijzXsIuFJ1HOYF2AZ8=',
  sha512:
    'MIIB9jCCAV+gAwIBAgIUWoEoAWWtQo5rlD3d1ef5KtXTazgwDQYJKoZIhvcNAQENBQAwDDEKMAgGA1UEAwwBYTAgFw0yNjExMjgxOTM1MjlaGA8yMTI2MTEwNDE5MzUyOVowDDEKMAgGA1UEAwwBYTCBnzANBgkqhkiG9w0BAQEFAAOBjQAwgYkCgYEA0ftNN0uFco/QtexZWl5hH1NbDdozj6/sHBIGUgI2pejrNQoteQcpvYhc9xlDREtEYt+lx4AVLSDlXznmvMIFRYcBh9gIDy0RbTeCIEGOjaGppECFJzmDUAnwtPkiiz+ZLspsUfyawJV8megUzPOPzfSJpg5P6lMvlPQVzugK090CAwEAAaNTMFEwHQYDVR0OBBYEFLn6F2WsdxcejrEDylboYDCgaq0ZMB8GA1UdIwQYMBaAFLn6F2WsdxcejrEDylboYDCgaq0ZMA8GA1UdEwEB/wQFMAMBAf8wDQYJKoZIhvcNAQENBQADgYEAsP1w1Bfo94B6vNV7SJT/VlPptthVm4rOgiQ4e6txd6XcWNYW4giZyZ1Ikw3Oh1+wEwe6Dt3GTePDwXUE/YsOFKYgtDW6bY+fC65bDR/tjpxJzg9Ga7X0Eb31pI0H6wLUTKjjKBiJmMBfJYTu7CKbtvdKuJhrWH/nX9mb8AI/0xU=',
} as const
const BY_SHA1 =
  'MIIBbjCCARSgAwIBAgIUbXwhHbd84teyM96LrV59m34m7oEwCQYHKoZIzj0EATAMMQowCAYDVQQDDAFhMCAXDTI2MTEyODE5MzUyOVoYDzIxMjYxMTA0MTkzNTI5WjAMMQowCAYDVQQDDAFhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEBVm/9uxjB0cjbdGd6PEtNFcQjnob5RhR3sb1f+BRT6NZr5NBOhplEYGrz54KJswx2Jf1cmE8jM0PdTzL7FAlWqNTMFEwHQYDVR0OBBYEFIs7UREMS3De7uL/EUpVh7i1rVT0MB8GA1UdIwQYMBaAFIs7UREMS3De7uL/EUpVh7i1rVT0MA8GA1UdEwEB/wQFMAMBAf8wCQYHKoZIzj0EAQNJADBGAiEAh0NYGaYfOnzqPdVEbwecJ3Pwp0fYKOL/azwa2GN0KJ0CIQDOPkbFUzCxyVmZaCLtW1ktUv6Wj6x2a1Zh77KbsXSRNA=='
const BY_ED25519 =
  'MIIBLjCB4aADAgECAhQ/QZmZseYBuau9woN4DDgIrv89+zAFBgMrZXAwDDEKMAgGA1UEAwwBYTAgFw0yNjExMjgxOTM1MjlaGA8yMTI2MTEwNDE5MzUyOVowDDEKMAgGA1UEAwwBYTAqMAUGAytlcAMhAOK7xq6NhnA1Cc/zvBoMXwiVehVwpoUd5jozlx3WfoVTo1MwUTAdBgNVHQ4EFgQU703+goW4UFc590y5eOdCKK01d3swHwYDVR0jBBgwFoAU703+goW4UFc590y5eOdCKK01d3swDwYDVR0TAQH/BAUwAwEB/zAFBgMrZXADQQBPkTEqiuJtU8TbVaEZVqYHQwZx/omEa9PtY4ESZjiKa8Tn0/tEou2iNCaO/yMRlX3SWeaUMqMgvCnzdscxjsMG'

const pem = (base64: string) => `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`

it('is the hash of the certificate by which it was signed, as clients compute it', () => {
  for (const [algorithm, base64] of Object.entries(CERTIFICATES)) {
    const certificate = Buffer.from(base64, 'base64')
    const theirs = client.signatureAlgorithmHashFromCertificate(certificate)
    assert.equal(theirs.replace('-', '').toLowerCase(), algorithm)
    assert.deepEqual(tlsEndPoint(pem(base64)), hash(algorithm, certificate, 'buffer'), algorithm)
    assert.deepEqual(
      tlsEndPoint(pem(base64) + pem(BY_SHA1)),
      hash(algorithm, certificate, 'buffer'),
      'the first of many',
    )
  }
  assert.deepEqual(tlsEndPoint(pem(BY_SHA1)), hash('sha256', Buffer.from(BY_SHA1, 'base64'), 'buffer'))
})

it('is none where clients agree on no hash', () => {
  assert.equal(tlsEndPoint(pem(BY_ED25519)), null)
})
