import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type JsonSchema, SluiceError } from '@sluice/sdk'
import { FolderRules } from './folder-rules.ts'

const base = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-folder-rules-')))
after(() => rmSync(base, { recursive: true, force: true }))
for (const name of ['data', 'acme/orders', 'acme-other', 'globex']) mkdirSync(join(base, name), { recursive: true })
symlinkSync(join(base, 'globex'), join(base, 'acme/elsewhere'))
symlinkSync(join(base, 'acme/orders'), join(base, 'globex/inwards'))

const schema: JsonSchema = { type: 'object', properties: { folder: { type: 'string', 'x-folder': true } } }
const rules = new FolderRules({ acme: [join(base, 'acme')] }, [join(base, 'data')])
const rootsOf = (folder: unknown, tenant: string | null = 'acme') => rules.rootsOf(schema, { folder }, tenant)

test('a folder under an allowed one opens that one', () => {
  for (const folder of ['acme', 'acme/orders', 'acme/orders/', 'acme/not-there/yet', 'globex/inwards'])
    assert.deepEqual(rootsOf(join(base, folder)), [join(base, 'acme')])
})

test('what leads elsewhere is refused, in words that name the setting and no path', () => {
  const others = [
    'acme-other',
    'globex',
    'acme/../globex',
    'acme/elsewhere',
    'acme/elsewhere/x',
    'data',
    '.',
    'acme\0',
  ].map((name) => `${base}/${name}`)
  for (const folder of [...others, '/', '/etc', '']) {
    assert.throws(
      () => rootsOf(folder),
      (error: unknown) =>
        error instanceof SluiceError &&
        error.code === 'folder_refused' &&
        error.remedy?.includes('folders.allow') === true &&
        !error.message.includes(base),
      folder,
    )
  }
})

test('nothing is allowed to a tenant that is not named, or to nobody', () => {
  for (const tenant of ['globex', '__proto__', 'constructor', null])
    assert.throws(() => rootsOf(join(base, 'acme'), tenant), { code: 'folder_refused' })
})

test('settings that are no folders ask for nothing', () => {
  assert.deepEqual(
    rules.rootsOf({ type: 'object', properties: { path: { type: 'string' } } }, { path: '/etc' }, null),
    [],
  )
  assert.deepEqual(rootsOf(undefined), [])
})

test('an operator cannot allow what holds the data, by mistake', () => {
  for (const root of ['', '.', base, join(base, 'data'), join(base, 'data/lake'), 'acme'])
    assert.throws(() => new FolderRules({ acme: [root] }, [join(base, 'data')]), { code: 'invalid_config' }, root)
})
