/** The logins that a deployment makes at its object store: they reach buckets of tenants, and nothing else. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { Client } from 'minio'

const named = (name: string): string => {
  const value = process.env[name]
  assert.ok(value, `${name} is not set; npm run test:stack starts a server that has it`)
  return value
}

const suffix = randomUUID().slice(0, 8)
const PAYROLL = `payroll-${suffix}`
const OWN = `sluice-own-${suffix}`
const denied = { code: 'AccessDenied' }

let root: Client
let runtime: Client
let engine: Client

before(async () => {
  const url = new URL(named('SLUICE_TEST_S3_URL'))
  const login = (key: string, secret: string) =>
    new Client({
      endPoint: url.hostname,
      port: Number(url.port),
      useSSL: false,
      region: 'us-east-1',
      accessKey: named(key),
      secretKey: named(secret),
    })
  root = login('SLUICE_TEST_S3_ROOT_KEY', 'SLUICE_TEST_S3_ROOT_SECRET')
  runtime = login('SLUICE_TEST_S3_KEY', 'SLUICE_TEST_S3_SECRET')
  engine = login('SLUICE_TEST_S3_READ_KEY', 'SLUICE_TEST_S3_READ_SECRET')
  await root.makeBucket(PAYROLL)
  await root.putObject(PAYROLL, 'salaries.csv', 'ada,100')
  await runtime.makeBucket(OWN)
})

after(async () => {
  await root?.removeObject(PAYROLL, 'salaries.csv')
  await root?.removeBucket(PAYROLL)
  await runtime?.removeBucket(OWN)
})

describe('the runtime’s login at the object store', () => {
  it('writes, reads and removes in buckets of tenants', async () => {
    await runtime.putObject(OWN, 'a/b', 'text')
    const chunks = await Array.fromAsync(await runtime.getObject(OWN, 'a/b'))
    assert.equal(Buffer.concat(chunks as Buffer[]).toString(), 'text')
    await runtime.removeObject(OWN, 'a/b')
  })

  it('learns of no other bucket', async () => {
    const buckets = (await runtime.listBuckets().catch(() => [])).map(({ name }) => name)
    assert.ok(!buckets.includes(PAYROLL), buckets.join(', '))
    await assert.rejects(runtime.bucketExists(PAYROLL), denied)
    await assert.rejects(Array.fromAsync(runtime.listObjectsV2(PAYROLL)), denied)
  })

  it('reads, writes, removes and makes nothing outside of them', async () => {
    await assert.rejects(runtime.getObject(PAYROLL, 'salaries.csv'), denied)
    await assert.rejects(runtime.putObject(PAYROLL, 'x', 'x'), denied)
    await assert.rejects(runtime.removeObject(PAYROLL, 'salaries.csv'), denied)
    await assert.rejects(runtime.removeBucket(PAYROLL), denied)
    await assert.rejects(runtime.makeBucket(`other-${suffix}`), denied)
  })

  it('opens none of its buckets to others', async () => {
    const everybody = {
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Principal: '*', Action: ['s3:GetObject'], Resource: [`arn:aws:s3:::${OWN}/*`] }],
    }
    await assert.rejects(runtime.setBucketPolicy(OWN, JSON.stringify(everybody)), denied)
  })
})

describe('the engine’s login at the object store', () => {
  before(() => runtime.putObject(OWN, 'data/x.parquet', 'rows'))
  after(() => runtime.removeObject(OWN, 'data/x.parquet'))

  it('reads buckets of tenants', async () => {
    const chunks = await Array.fromAsync(await engine.getObject(OWN, 'data/x.parquet'))
    assert.equal(Buffer.concat(chunks as Buffer[]).toString(), 'rows')
    assert.equal((await Array.fromAsync(engine.listObjectsV2(OWN, '', true))).length, 1)
  })

  it('changes nothing, and reads nothing else', async () => {
    await assert.rejects(engine.putObject(OWN, 'data/y.parquet', 'x'), denied)
    await assert.rejects(engine.removeObject(OWN, 'data/x.parquet'), denied)
    await assert.rejects(engine.makeBucket(`sluice-made-${suffix}`), denied)
    await assert.rejects(engine.removeBucket(OWN), denied)
    await assert.rejects(engine.getObject(PAYROLL, 'salaries.csv'), denied)
  })
})
