/** Tables on an S3 store, read and written by a client that has no key to it. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import * as minio from 'minio'
import { Client, type Json } from '../../acceptance/client.ts'
import { type Deployment, openDeployment } from '../../acceptance/deployment.ts'

const TENANT = `signed-${Date.now().toString(36)}`
const store = process.env['SLUICE_TEST_S3_URL'] ?? ''

let deployment: Deployment
let admin: Client
let developer: Client
let viewer: Client
let tokens: Readonly<Record<'developer' | 'viewer', string>>
let location: string
/** The runtime's own login at the store: what it holds shows what requests have done. */
let bucket: minio.Client

const VICTIM = `sluice-victim-${Date.now().toString(36)}`
const CLEAR = 'victim/crm/people/data/clear.parquet'

before(async () => {
  Object.assign(process.env, {
    SLUICE_OBJECT_STORE__TYPE: 's3',
    SLUICE_OBJECT_STORE__ENDPOINT: store,
    SLUICE_OBJECT_STORE__ACCESS_KEY_ID: process.env['SLUICE_TEST_S3_KEY'],
    SLUICE_OBJECT_STORE__SECRET_ACCESS_KEY: process.env['SLUICE_TEST_S3_SECRET'],
    SLUICE_CATALOG__FILE_ACCESS: 'signed',
  })
  const { hostname, port } = new URL(store)
  bucket = new minio.Client({
    endPoint: hostname,
    port: Number(port),
    useSSL: false,
    region: 'us-east-1',
    accessKey: process.env['SLUICE_TEST_S3_KEY'] ?? '',
    secretKey: process.env['SLUICE_TEST_S3_SECRET'] ?? '',
  })
  await bucket.makeBucket(VICTIM)
  await bucket.putObject(VICTIM, CLEAR, 'salary 100')
  deployment = await openDeployment()
  tokens = {
    developer: await deployment.token(['--tenant', TENANT, '--group', 'svc-developers', '--user', 'dora']),
    viewer: await deployment.token(['--tenant', TENANT, '--group', 'svc-viewers', '--user', 'vito']),
  }
  admin = new Client(deployment.url, await deployment.token(['--role', 'admin']))
  developer = new Client(deployment.url, tokens.developer)
  viewer = new Client(deployment.url, tokens.viewer)
  const created = await admin.post('/api/v1/tenants', { slug: TENANT, display_name: TENANT, tier: 'standard' })
  assert.equal(created.status, 201, JSON.stringify(created.body))
})

after(async () => {
  await admin?.send(`/api/v1/tenants/${TENANT}?confirm=${TENANT}`, { method: 'DELETE' })
  await deployment?.stop()
  await bucket?.removeObject(VICTIM, CLEAR)
  await bucket?.removeBucket(VICTIM)
})

const sign = (client: Client, method: string, uri: string, headers: Readonly<Record<string, readonly string[]>> = {}) =>
  client.post(`/iceberg/v1/${TENANT}/namespaces/sandbox/tables/signed/sign`, {
    method,
    uri,
    region: 'us-east-1',
    headers,
  })

describe('a client without a key to the store', () => {
  it('writes and reads a table, which queries then read', async () => {
    // PyIceberg sends requests unsigned while another of its threads begins to read: apache/iceberg-python#3896.
    const child = spawn(
      process.env['SLUICE_TEST_ICEBERG_PYTHON'] ?? 'python3',
      [new URL('signed.py', import.meta.url).pathname],
      { env: { ...process.env, PYICEBERG_MAX_WORKERS: '1' } },
    )
    child.stdin.end(JSON.stringify({ url: deployment.url, warehouse: TENANT, ...tokens }))
    const [answer, said] = await Promise.all([text(child.stdout), text(child.stderr)])
    assert.notEqual(answer, '', said)
    const { ids, staged, refused, ...rest }: Json = JSON.parse(answer)
    location = rest.location
    assert.deepEqual(ids, [1, 2, 3, 4])
    assert.ok(refused.viewer, 'a viewer writes nothing')
    assert.deepEqual(staged, [6, 7, 8])
    assert.equal(refused.unmade, 'NoSuchTableError')
    const { status, body } = await developer.post('/api/v1/query', {
      sql: 'SELECT sum(id)::INTEGER FROM sandbox.signed',
    })
    assert.equal(status, 200, JSON.stringify(body))
    assert.deepEqual(body.rows, [[10]])
  })

  it('gets signatures for a table that it stages, and for no other folder', async () => {
    const stage = {
      name: 'unmade',
      'stage-create': true,
      schema: { type: 'struct', fields: [{ id: 1, name: 'id', required: false, type: 'long' }] },
    }
    const tables = `/iceberg/v1/${TENANT}/namespaces/sandbox/tables`
    const { status, body } = await developer.post(tables, stage)
    assert.equal(status, 200, JSON.stringify(body))
    const folder: string = body.metadata.location.replace('s3://', `${store}/`)
    const signed = (client: Client, method: string, uri: string, table = 'unmade') =>
      client.post(`${tables}/${table}/sign`, { method, uri, region: 'us-east-1', headers: {} })
    for (const method of ['PUT', 'GET']) {
      assert.equal((await signed(developer, method, `${folder}/data/x.parquet`)).status, 200, method)
    }
    const others = [
      `${folder.slice(0, -1)}${folder.endsWith('0') ? '1' : '0'}/data/x`,
      `${folder}/x`,
      `${folder}/data/..%2f..%2fother/data/x`,
    ]
    for (const uri of others) assert.notEqual((await signed(developer, 'PUT', uri)).status, 200, uri)
    assert.equal((await signed(developer, 'PUT', `${folder}/data/x`, 'another')).status, 404)
    assert.equal((await signed(viewer, 'GET', `${folder}/data/x`)).status, 404)
  })

  it('gets signatures for files of the table alone', async () => {
    const folder = location.replace('s3://', `${store}/`)
    const own = `${folder}/data/x.parquet`
    assert.equal((await sign(developer, 'PUT', own)).status, 200)
    assert.equal((await sign(viewer, 'GET', own)).status, 200)
    const bucket = folder.split('/').slice(0, 4).join('/')
    for (const [client, method, uri] of [
      [viewer, 'PUT', own],
      [viewer, 'DELETE', own],
      [developer, 'PATCH', own],
      [developer, 'GET', `${folder}/../other/data/x`],
      [developer, 'GET', `${folder}/data/%2e%2e/%2e%2e/other/data/x`],
      [developer, 'GET', `${folder}/data/..%2f..%2fother/data/x`],
      [developer, 'GET', `${folder}-other/data/x`],
      [developer, 'GET', `${bucket}/${TENANT}/crm/people/data/x`],
      [developer, 'GET', bucket],
      [developer, 'GET', `${own}?acl`],
      [developer, 'GET', `${bucket}?list-type=2&prefix=`],
      [developer, 'POST', `${bucket}?delete`],
      [developer, 'PUT', `${own}?tagging`],
      [developer, 'GET', own.replace(store, 'http://169.254.169.254')],
      [developer, 'GET', own.replace('http://', 'http://user@')],
      [developer, 'GET', 'file:///etc/passwd'],
    ] as const) {
      const { status, body } = await sign(client, method, uri)
      assert.equal(status, 403, `${method} ${uri}: ${JSON.stringify(body)}`)
    }
    for (const name of ['x-amz-copy-source', 'X-Amz-Acl', 'x-amz-grant-read', 'x-amz-tagging']) {
      assert.equal((await sign(developer, 'PUT', own, { [name]: ['x'] })).status, 403, name)
    }
  })
})

/** As engines do: the request as the catalog answered it. `more` are headers that the catalog was not told of. */
async function sendSigned(
  client: Client,
  method: string,
  uri: string,
  {
    body,
    told = {},
    more = {},
  }: {
    readonly body?: string | Buffer
    readonly told?: Readonly<Record<string, string>>
    readonly more?: Readonly<Record<string, string>>
  } = {},
): Promise<{ readonly status: number; readonly text: string; readonly headers: Headers }> {
  const lists = Object.fromEntries(Object.entries(told).map(([name, value]) => [name, [value]]))
  const signed = await sign(client, method, uri, lists)
  if (signed.status !== 200)
    return { status: signed.status, text: JSON.stringify(signed.body), headers: signed.headers }
  const given = Object.entries(signed.body.headers as Record<string, string[]>)
  const headers = { ...told, ...Object.fromEntries(given.map(([name, values]) => [name, values.join(', ')])), ...more }
  const answer = await fetch(signed.body.uri, { method, headers, ...(body === undefined ? {} : { body }) })
  return { status: answer.status, text: await answer.text(), headers: answer.headers }
}

describe('what a client adds to a request that the catalog let through', () => {
  const own = (name: string) => `${location.replace('s3://', `${store}/`)}/data/${name}`
  const read = async (uri: string) => (await sendSigned(viewer, 'GET', uri)).text

  it('brings no file of another tenant', async () => {
    const copied = { 'x-amz-copy-source': `/${VICTIM}/${CLEAR}` }
    const put = await sendSigned(developer, 'PUT', own('copied'), { body: 'mine', more: copied })
    assert.equal(put.status, 403, put.text)
    assert.ok(!(await read(own('copied'))).includes('salary'))

    const parts = await begin('parts')
    const copy = await sendSigned(developer, 'PUT', `${own('parts')}?partNumber=1&${parts.query}`, { more: copied })
    assert.equal(copy.status, 403, copy.text)
    await parts.send('mine')
    assert.equal(await read(own('parts')), 'mine')
  })

  it('unpacks no archive over other files', async () => {
    const entry = CLEAR.slice(CLEAR.lastIndexOf('/') + 1)
    const unpacked = { 'x-amz-meta-snowball-auto-extract': 'true', 'x-amz-meta-minio-snowball-prefix': 'x' }
    const before = (await files()).length
    const answer = await sendSigned(developer, 'PUT', own('archive.tar'), {
      body: tarOf(entry, 'mine'),
      more: unpacked,
    })
    assert.equal(answer.status, 403, answer.text)
    assert.equal((await files()).length, before, 'nothing was made')
  })

  it('gives a file no rights, marks, classes or encodings', async () => {
    const plain = {
      'cache-control': 'no-store',
      'content-disposition': 'inline',
      'content-type': 'text/html',
      expires: '0',
    }
    const names = [
      ...['acl', 'grant-read', 'tagging', 'tagging-directive', 'storage-class', 'website-redirect-location'],
      ...['object-lock-mode', 'object-lock-retain-until-date', 'object-lock-legal-hold', 'bypass-governance-retention'],
      ...['server-side-encryption', 'server-side-encryption-customer-algorithm', 'meta-sluice-sha256', 'meta-x'],
      ...['replication-status', 'write-offset-bytes', 'request-payer', 'expected-bucket-owner', 'metadata-directive'],
      ...['copy-source-range', 'copy-source-if-match', 'mfa', 'rename-source'],
    ]
    for (const name of names) {
      const { status, text } = await sendSigned(developer, 'PUT', own(name), {
        body: 'x',
        more: { [`x-amz-${name}`]: '1' },
      })
      assert.equal(status, 403, `${name}: ${text}`)
    }
    const minios = { 'x-minio-source-mtime': '2000-01-01T00:00:00Z', 'x-minio-source-replication-request': 'true' }
    const more = { ...plain, ...minios, 'x-minio-force-delete': 'true' }
    const { status, text } = await sendSigned(developer, 'PUT', own('plain'), { body: 'x', more })
    assert.equal(status, 200, text)
    const key = location.slice(location.indexOf('/', 's3://'.length) + 1)
    const { metaData, lastModified } = await bucket.statObject(`sluice-${TENANT}`, `${key}/data/plain`)
    assert.deepEqual(
      Object.keys(metaData).filter((name) => name !== 'content-type'),
      [],
    )
    assert.notEqual(metaData['content-type'], 'text/html')
    assert.ok(lastModified.getFullYear() > 2000)
    assert.equal((await sendSigned(developer, 'DELETE', own('pl'), { more })).status, 204)
    assert.equal(await read(own('plain')), 'x', 'what begins with the name of a removed file stays')
  })

  it('makes nothing of a reader’s signature but that reading', async () => {
    await sendSigned(developer, 'PUT', own('readable'), { body: 'x' })
    const { body } = await sign(developer, 'GET', own('readable'))
    const headers = Object.fromEntries(
      Object.entries(body.headers as Record<string, string[]>).map(([name, values]) => [name, values.join(', ')]),
    )
    const url: string = body.uri
    const copied = { 'x-amz-copy-source': `/${VICTIM}/${CLEAR}` }
    for (const [method, uri, more] of [
      ['PUT', url, copied],
      ['PUT', url, {}],
      ['DELETE', url, {}],
      ['POST', `${url}?uploads`, {}],
      ['GET', `${store}/${VICTIM}/${CLEAR}`, {}],
      ['GET', `${url}?acl`, {}],
      ['GET', `${url}?versionId=null`, {}],
      ['GET', `${url}?response-content-type=text/html`, {}],
      ['GET', url.replace('/data/', '/data/../data/../../other/'), {}],
      ['GET', url.replace('/data/', '//data/'), {}],
      ['GET', url.slice(0, url.indexOf('/', store.length + 1)), {}],
    ] as const) {
      const answer = await fetch(uri, { method, headers: { ...headers, ...more } })
      const said = await answer.text()
      assert.ok(answer.status >= 400 && !said.includes('salary'), `${method} ${uri}: ${answer.status} ${said}`)
    }
    const read = await fetch(url, { headers: { ...headers, ...copied, 'x-minio-extract': 'true' } })
    assert.equal(await read.text(), 'x')
  })

  it('writes a file once, and a file of a snapshot not again', async () => {
    const put = (name: string) => sendSigned(developer, 'PUT', own(name), { body: 'first' })
    assert.equal((await put('once')).status, 200)
    assert.equal((await put('once')).status, 412)
    const [late, early] = [await begin('raced'), await begin('raced')]
    await late.send('first')
    assert.equal((await early.send('second')).status, 412)
    assert.equal(await read(own('raced')), 'first')
    const races = await Promise.all(Array.from({ length: 6 }, () => put('together')))
    assert.deepEqual(races.map(({ status }) => status).sort(), [200, 412, 412, 412, 412, 412])

    const folder = location.slice(location.indexOf('/', 's3://'.length) + 1)
    const committed = (await files()).filter(
      (name) => name.startsWith(`${folder}/`) && /\.(parquet|avro|json)$/.test(name),
    )
    assert.ok(committed.length >= 6, committed.join())
    for (const name of committed) {
      const uri = `${store}/sluice-${TENANT}/${name}`
      for (const [method, address] of [
        ['PUT', uri],
        ['DELETE', uri],
        ['POST', `${uri}?uploads=`],
        ['POST', `${uri}?uploadId=x`],
      ] as const) {
        const { status, text } = await sendSigned(
          developer,
          method,
          address,
          method === 'DELETE' ? {} : { body: 'other' },
        )
        assert.equal(status, 403, `${method} ${name}: ${text}`)
      }
    }
    const { body } = await developer.post('/api/v1/query', { sql: 'SELECT sum(id)::INTEGER FROM sandbox.signed' })
    assert.deepEqual(body.rows, [[10]])
  })

  it('may come in chunks, with a checksum at its end that the store compares', async () => {
    const send = (name: string, checksum: number) => {
      const trailer = Buffer.alloc(4)
      trailer.writeUInt32BE(checksum)
      const body = `5\r\nfirst\r\n0\r\nx-amz-checksum-crc32:${trailer.toString('base64')}\r\n\r\n`
      const told = {
        'content-encoding': 'aws-chunked',
        'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
        'x-amz-decoded-content-length': '5',
        'x-amz-trailer': 'x-amz-checksum-crc32',
        'x-amz-sdk-checksum-algorithm': 'CRC32',
      }
      return sendSigned(developer, 'PUT', own(name), { body, told })
    }
    const { status, text } = await send('chunked', crc32('first'))
    assert.equal(status, 200, text)
    assert.equal(await read(own('chunked')), 'first')
    assert.equal((await send('spoiled', crc32('other'))).status, 400)
  })

  it('is held against what holds when it is sent, for files of that table alone', async () => {
    const { body } = await sign(developer, 'PUT', own('later'))
    const sent = async (uri: string, token: string | null) =>
      (
        await fetch(uri, {
          method: 'PUT',
          body: 'x',
          headers: token === null ? {} : { authorization: `Bearer ${token}` },
        })
      ).status
    assert.equal(await sent(body.uri, null), 401)
    assert.equal(await sent(body.uri, tokens.viewer), 403)
    const path = new URL(body.uri).searchParams.get('path') ?? ''
    const other = (text: string) => body.uri.replace(encodeURIComponent(path), encodeURIComponent(text))
    for (const text of [
      `${VICTIM}/${CLEAR}`,
      path.replace('/data/', '/data/../../other/data/'),
      path.replace('/data/', '//data/'),
      path.replace('/data/', '-x/data/'),
      path.replace('/data/later', '/later'),
      path.replace('/data/', '/metadata/../'),
      `/${path}`,
      `${path}/`,
      `${path}\0`,
      `${path}\\..\\x`,
    ]) {
      assert.ok([400, 403].includes(await sent(other(text), tokens.developer)), text)
    }
    for (const query of ['acl', 'tagging', 'versionId=x', 'uploadId=x', 'partNumber=1', 'retention', 'path=x']) {
      assert.ok([400, 403].includes(await sent(`${body.uri}&${query}`, tokens.developer)), query)
    }
    assert.equal(await sent(body.uri, tokens.developer), 200)
    assert.equal(await bucketText(CLEAR), 'salary 100')
  })

  /** An upload in parts that has begun. */
  async function begin(name: string) {
    const begun = await sendSigned(developer, 'POST', `${own(name)}?uploads=`)
    const query = `uploadId=${encodeURIComponent(/<UploadId>([^<]+)/.exec(begun.text)?.[1] ?? begun.text)}`
    return {
      query,
      async send(body: string) {
        const part = await sendSigned(developer, 'PUT', `${own(name)}?partNumber=1&${query}`, { body })
        const xml = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${part.headers.get('etag')}</ETag></Part></CompleteMultipartUpload>`
        return sendSigned(developer, 'POST', `${own(name)}?${query}`, { body: xml })
      },
    }
  }

  /** Keys of all files of the tenant. */
  async function files(): Promise<readonly string[]> {
    const listed = await Array.fromAsync(bucket.listObjectsV2(`sluice-${TENANT}`, '', true))
    return listed.map(({ name }) => name ?? '')
  }

  async function bucketText(key: string): Promise<string> {
    return text(await bucket.getObject(VICTIM, key))
  }
})

/** An archive with one file. */
function tarOf(name: string, content: string): Buffer {
  const head = Buffer.alloc(512)
  const put = (at: number, value: string) => head.write(value, at, 'latin1')
  put(0, name)
  put(100, '0000644\0')
  put(108, '0000000\0')
  put(116, '0000000\0')
  put(124, `${content.length.toString(8).padStart(11, '0')}\0`)
  put(136, '00000000000\0')
  put(148, '        ')
  put(156, '0')
  put(257, 'ustar\x0000')
  put(
    148,
    `${head
      .reduce((sum, byte) => sum + byte, 0)
      .toString(8)
      .padStart(6, '0')}\0 `,
  )
  const body = Buffer.alloc(512)
  body.write(content)
  return Buffer.concat([head, body, Buffer.alloc(1024)])
}
