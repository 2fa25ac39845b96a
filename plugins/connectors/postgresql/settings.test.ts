import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ConfigProblem, isSluiceError } from '@sluice/sdk'
import { parseSettings } from './settings.ts'

const GOOD = { host: 'db.example.com', database: 'shop', user: 'reader', password: 'secret words' }
const PEM = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n'

function problemsOf(settings: unknown): readonly ConfigProblem[] {
  try {
    parseSettings(settings)
    return []
  } catch (error) {
    assert.ok(isSluiceError(error, 'CONFIG'))
    assert.equal(error.code, 'settings_invalid')
    assert.doesNotMatch(JSON.stringify({ ...error, message: error.message }), /secret words/)
    return error.details?.problems as readonly ConfigProblem[]
  }
}

test('what is left out has a default', () => {
  assert.deepEqual(parseSettings(GOOD), {
    host: 'db.example.com',
    port: 5432,
    database: 'shop',
    user: 'reader',
    password: 'secret words',
    sslMode: 'require',
    sslRootCert: null,
    connectTimeoutMs: 10_000,
    statementTimeoutMs: 7_200_000,
    cursorOverlapS: 600,
    schemas: null,
    oneMoment: false,
  })
})

test('hosts are names and addresses, never paths or lists', () => {
  for (const host of ['a', 'db-1.example.com', 'example.com.', '10.0.0.1', '::1', 'fe80::1', 'under_score.local']) {
    assert.deepEqual(problemsOf({ ...GOOD, host }), [], host)
  }
  for (const host of [
    '',
    '/var/run/postgresql',
    '@socket',
    './x',
    'a,b',
    'a b',
    'a/b',
    'db:5432',
    '%2Fvar',
    '-x',
    'a\0b',
  ]) {
    assert.deepEqual(new Set(problemsOf({ ...GOOD, host }).map(({ pointer }) => pointer)), new Set(['/host']), host)
  }
})

test('every problem is told at once, by pointer', () => {
  const problems = problemsOf({ host: 1, port: 0, user: 'u', ssl_mode: 'allow', schemas: ['a', 'a'], 'ssl/key': 'x' })
  assert.deepEqual(problems.map(({ pointer }) => pointer).sort(), [
    '/database',
    '/host',
    '/port',
    '/schemas',
    '/ssl_mode',
    '/ssl~1key',
  ])
  assert.deepEqual(
    problemsOf(null).map(({ pointer }) => pointer),
    [''],
  )
  assert.deepEqual(
    problemsOf({ ...GOOD, password: 7 }).map(({ pointer }) => pointer),
    ['/password'],
  )
})

test('an authority is PEM text, and verify-ca needs one', () => {
  assert.deepEqual(problemsOf({ ...GOOD, ssl_mode: 'verify-ca', ssl_root_cert: PEM }), [])
  assert.deepEqual(problemsOf({ ...GOOD, ssl_mode: 'verify-full' }), [])
  for (const settings of [{ ssl_mode: 'verify-ca' }, { ssl_root_cert: '/etc/ssl/ca.pem' }]) {
    assert.deepEqual(
      problemsOf({ ...GOOD, ...settings }).map(({ pointer }) => pointer),
      ['/ssl_root_cert'],
    )
  }
})
