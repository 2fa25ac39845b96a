import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import {
  type CertificateBody,
  countsInPackage,
  packageDigest,
  publishedPart,
  readCertificate,
  signCertificate,
} from '@sluice/sdk'

const { privateKey } = generateKeyPairSync('ed25519')
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()

const body: CertificateBody = {
  plugin: { kind: 'serving', type: 'lookup', name: 'sqlite', version: '1.0.0' },
  package: { name: 'store', version: '1.0.0', sha256: 'ab' },
  sdk: '1.0.0',
  suite: '1.0.0',
  level: 'full',
  seed: 1,
  checks: { passed: 3 },
  proved: ['operation get'],
  waived: [],
  killRate: { caught: 2, of: 2 },
}

test('a certificate is read back, and signing is repeatable', () => {
  const certificate = signCertificate(body, pem)
  assert.deepEqual(readCertificate(JSON.stringify(certificate)), certificate)
  assert.deepEqual(signCertificate(body, pem), certificate)
})

test('a certificate of a suite that says neither day nor dependencies is one, and so is one that says them', () => {
  const more = {
    ...body,
    date: '2026-01-02',
    signer: 'the data team',
    dependencies: { sha256: 'cd', packages: ['pg@8.0.0'] },
  }
  for (const one of [body, more]) {
    const read = readCertificate(JSON.stringify(signCertificate(one, pem)))
    assert.ok('body' in read)
    assert.deepEqual(read.body, one)
  }
})

test('whatever was changed after signing is noticed', () => {
  const certificate = signCertificate(body, pem)
  const forged = { ...certificate, body: { ...body, proved: ['operation get', 'ttl'] } }
  assert.match(JSON.stringify(readCertificate(JSON.stringify(forged))), /signature/)
  const otherKey = signCertificate(
    body,
    generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  )
  const swapped = { ...certificate, publicKey: otherKey.publicKey }
  assert.match(JSON.stringify(readCertificate(JSON.stringify(swapped))), /signature/)
})

test('what is no certificate is refused in words', () => {
  for (const text of [
    '',
    'null',
    '[]',
    '{}',
    '{"format":"sluice-certificate/1"}',
    JSON.stringify({ ...signCertificate(body, pem), publicKey: 'AAAA' }),
    JSON.stringify(signCertificate({ ...body, dependencies: {} as never }, pem)),
    JSON.stringify(signCertificate({ ...body, date: 20260101 as never }, pem)),
  ]) {
    assert.ok('problem' in readCertificate(text), text)
  }
})

test('the digest follows every counted byte and name, and no order', () => {
  const files = new Map([
    ['index.js', Buffer.from('a')],
    ['lib/x.js', Buffer.from('b')],
  ])
  const digest = packageDigest(files)
  assert.equal(packageDigest(new Map([...files].reverse())), digest)
  assert.notEqual(packageDigest(new Map([...files, ['y.js', Buffer.from('')]])), digest)
  assert.notEqual(
    packageDigest(
      new Map([
        ['index.js', Buffer.from('ab')],
        ['lib/x.js', Buffer.from('')],
      ]),
    ),
    digest,
  )
  assert.equal(packageDigest(new Map([...files, ['node_modules/p/index.js', Buffer.from('c')]])), digest)
})

test('of a package with a published part only that part counts, where the plugin is in it', () => {
  const published = publishedPart(['./dist/', 'README.md'], 'dist/index.js')
  assert.deepEqual(published, ['dist', 'README.md'])
  const counted = (path: string) => countsInPackage(path, published)
  assert.deepEqual(['package.json', 'dist/a/b.js', 'README.md'].map(counted), [true, true, true])
  assert.deepEqual(['index.ts', 'distant.js', 'dist/x.certificate.json'].map(counted), [false, false, false])
  for (const [files, module] of [
    [['dist'], 'index.ts'],
    [['*.js'], 'index.js'],
    [undefined, 'index.js'],
    ['dist', 'dist/index.js'],
  ]) {
    assert.equal(publishedPart(files, String(module)), null)
  }
})

test('code counts, wherever it stands; reports do not', () => {
  for (const path of ['index.js', '.hidden/x.js', 'conformance.js', 'report/conformance.json.js'])
    assert.ok(countsInPackage(path), path)
  for (const path of ['a.certificate.json', 'report/conformance.json', '.git/config'])
    assert.ok(!countsInPackage(path), path)
})
