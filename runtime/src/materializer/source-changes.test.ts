/** What is said of a product whose source does not come as its manifests name it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { parseEdited } from '../manifest/editing.ts'
import { withSourceChanges } from './source-changes.ts'

const NONE = { added: [], gone: [], retyped: [] }

test('columns that a table comes without are named, where it is taken as it is', async () => {
  const parsed = await parseEdited('minimal', [])
  assert.ok(parsed.ok)
  const { manifests } = parsed
  const [input] = manifests.inputs
  const names = manifests.output.columns.map(({ name }) => name)
  assert.ok(input !== undefined && names.length > 1)
  const error = new SluiceError('INVALID_DATA', 'the statement does not fit', { code: 'sql_invalid' })
  const said = (columns: readonly string[], transform: string | null = null) =>
    withSourceChanges(error, { ...manifests, compute: { ...manifests.compute, transform } }, [
      { input, changes: NONE, columns },
    ])
  for (const lacking of names) {
    const told = said(names.filter((name) => name !== lacking))
    assert.ok(isSluiceError(told, 'INVALID_DATA'))
    assert.deepEqual([told.code, told.message.endsWith(`comes without "${lacking}"`)], ['column_not_found', true])
    assert.match(told.remedy ?? '', /output\.yaml/)
  }
  for (const others of [said(names), said([], 'SELECT 1')]) {
    assert.ok(isSluiceError(others, 'INVALID_DATA'))
    assert.deepEqual([others.code, others.message.includes('comes without')], ['sql_invalid', false])
  }
})
