import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { DashboardColumn, DashboardDataset } from '@sluice/sdk'
import { folderOf, slugOf } from './files.ts'
import { pageOf } from './page.ts'
import { chartsOf, TEMPLATES } from './templates.ts'

const HOSTILE = `<script>"it's" & so on</script>`

const column = (name: string, type: DashboardColumn['type']): DashboardColumn => ({
  ...{ name, type, role: 'attribute', classification: 'public', nullable: true, description: '' },
})

const dataset: DashboardDataset = {
  ...{ productId: 'prd_1', variant: 'clear', tenant: 'acme', domain: 'sales', product: 'orders' },
  ...{ description: HOSTILE, template: 'days', refreshIntervalMs: null, hasHistory: false },
  columns: [column('a"b', 'string'), column('at', 'timestamptz')],
  table: {
    ...{ schema: 's', name: 'v', tenantColumn: '__tenant' },
    columns: [
      { name: 'a"b', type: 'text' },
      { name: 'at', type: 'timestamp with time zone' },
    ],
  },
  address: 'postgresql://u:secret@h:5432/d',
}

describe('a page', () => {
  test('runs nothing that a row, a column or a manifest says, and does not tell the address', () => {
    const rows = [[HOSTILE, null]]
    const page = pageOf(
      dataset,
      (['number', 'table', 'bars'] as const).map((kind) => ({
        ...{ kind, title: HOSTILE, sql: '' },
        columns: [HOSTILE],
        rows,
      })),
      'today',
    )
    assert.doesNotMatch(page, /<script|secret/)
    assert.match(page, /content-security-policy" content="default-src 'none'/)
    assert.ok(page.includes('&lt;script&gt;&quot;it&#39;s&quot; &amp; so on&lt;/script&gt;'))
  })
})

describe('a template', () => {
  test('says what it needs', () => {
    assert.equal(TEMPLATES.missing('list', []), null)
    assert.equal(TEMPLATES.missing('days', dataset.columns), null)
    assert.match(TEMPLATES.missing('days', [column('a', 'string')]) ?? '', /date, timestamp/)
  })

  test('quotes names, reads rows of the tenant alone, and of a history those that are current', () => {
    for (const { sql } of chartsOf({ ...dataset, hasHistory: true }, 10)) {
      assert.match(sql, /from "s"\."v" where "__tenant" = \$1 and is_current/)
      assert.doesNotMatch(sql, /a"b/)
    }
    assert.match(chartsOf(dataset, 10).at(-1)?.sql ?? '', /^select "a""b", "at" .* limit 10$/)
  })

  test('leaves out what a mask has taken away, and is nothing where another driver knew it', () => {
    const table = { ...dataset.table, columns: dataset.table.columns.slice(0, 1) }
    assert.deepEqual(
      chartsOf({ ...dataset, table }, 10).map(({ kind }) => kind),
      ['number', 'table'],
    )
    assert.deepEqual(chartsOf({ ...dataset, template: 'trend' }, 10), [])
    assert.deepEqual(chartsOf({ ...dataset, template: null }, 10), [])
  })
})

test('no two roles share a folder, and none leads out of it', () => {
  const roles = ['sluice:a:user:x', 'sluice:a:user:=78', 'sluice:a:user:x/../y', 'sluice:a:user:é', 'sluice:a:user:..']
  const folders = roles.map(folderOf)
  assert.equal(new Set(folders).size, roles.length)
  assert.equal(folders[0], roles[0])
  for (const folder of folders) assert.match(folder, /^[\w:=-]+$/)
  assert.notEqual(slugOf(dataset), slugOf({ ...dataset, variant: 'masked' }))
})
