/** A bucket that the suite fills, on the server that `SLUICE_TEST_S3_URL` names. */
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { SourceFixture } from '@sluice/conformance'
import { Client } from 'minio'
import { type FilesPlace, givenFiles, givenRows, givenTables, tablesIn } from '../files/conformance-tables.ts'
import type { S3FilesSettings } from './settings.ts'

export async function start(): Promise<SourceFixture> {
  const endpoint = process.env['SLUICE_TEST_S3_URL']
  const accessKey = process.env['SLUICE_TEST_S3_KEY']
  const secretKey = process.env['SLUICE_TEST_S3_SECRET']
  if (endpoint === undefined || accessKey === undefined || secretKey === undefined)
    throw new Error('SLUICE_TEST_S3_URL, _KEY and _SECRET name the server; npm run test:stack starts one')
  const bucket = `sluice-files-${randomUUID().slice(0, 8)}`
  const prefix = 'some/folder'
  const url = new URL(endpoint)
  const client = new Client({
    endPoint: url.hostname,
    port: Number(url.port),
    useSSL: url.protocol === 'https:',
    region: 'us-east-1',
    accessKey,
    secretKey,
  })
  await client.makeBucket(bucket, 'us-east-1')
  const keysUnder = async (path: string): Promise<readonly { readonly name?: string; readonly etag?: string }[]> =>
    Array.fromAsync(client.listObjectsV2(bucket, path, true))
  const place: FilesPlace = {
    write: async (path, content) => {
      await client.putObject(bucket, `${prefix}/${path}`, Buffer.from(content))
    },
    remove: async (path) => {
      for (const { name } of await keysUnder(`${prefix}/${path}`))
        if (name !== undefined) await client.removeObject(bucket, name)
    },
  }
  for (const [path, content] of givenFiles) await place.write(path, content)
  const settings: S3FilesSettings = {
    ...{ endpoint, bucket, prefix },
    access_key: accessKey,
    secret_key: secretKey,
    tables: givenTables,
  }
  return {
    settings,
    schema: 'files',
    steps: ['dns', 'tcp', 'auth', 'privileges'],
    broken: {
      dns: { ...settings, endpoint: 'http://nowhere.invalid' },
      tcp: { ...settings, endpoint: 'http://127.0.0.1:1' },
      auth: { ...settings, secret_key: 'not the secret of that key' },
      privileges: { ...settings, bucket: `${bucket}-absent` },
    },
    expected: givenRows,
    ...tablesIn(place),
    digest: async () => (await keysUnder('')).map(({ name, etag }) => `${name} ${etag}`).join('\n'),
    sessions: () => connectionsTo(Number(url.port)),
    stop: async () => {
      await place.remove('')
      await client.removeBucket(bucket)
    },
  }
}

/** Of this process, as the kernel counts them: those that are established. */
async function connectionsTo(port: number): Promise<number> {
  const lines = (await readFile('/proc/self/net/tcp', 'utf8').catch(() => '')).split('\n')
  const remote = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return lines.filter((line) => line.trim().split(/\s+/)[2]?.endsWith(remote) && line.trim().split(/\s+/)[3] === '01')
    .length
}
