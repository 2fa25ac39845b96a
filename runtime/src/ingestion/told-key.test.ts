import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import { toldKey } from './told-key.ts'

/** What PostgreSQL writes into CSV, and connectors that write it as the guide says; how reads tell it. */
const CASES: readonly (readonly [type: LogicalType, csv: string, told: string])[] = [
  ['string', ' 1.10', ' 1.10'],
  ['boolean', 't', 'true'],
  ['boolean', 'f', 'false'],
  ['integer', '-2147483648', '-2147483648'],
  ['long', '9223372036854775807', '9223372036854775807'],
  ['float', '3.4028235e+38', '3.4028235e+38'],
  ['float', '1e+06', '1000000'],
  ['double', '1e+15', '1000000000000000'],
  ['double', '5e-324', '5e-324'],
  ['double', '1e-05', '0.00001'],
  ['double', '-0', '0'],
  ['double', 'NaN', 'NaN'],
  ['double', '-Infinity', '-Infinity'],
  ['decimal(5,2)', '1.5', '1.50'],
  ['decimal(38,0)', '-7', '-7'],
  ['date', '0001-01-01', '0001-01-01'],
  ['date', '0044-03-15 BC', '0044-03-15 BC'],
  ['timestamp', '2024-02-29 12:00:00', '2024-02-29T12:00:00.000000'],
  ['timestamp', '9999-12-31 23:59:59.9', '9999-12-31T23:59:59.900000'],
  ['timestamptz', '2024-02-29 12:00:00.1+00', '2024-02-29T12:00:00.100000Z'],
  ['timestamptz', '2024-02-29 12:00:00+05:30', '2024-02-29T06:30:00.000000Z'],
  ['timestamptz', 'infinity', 'infinity'],
  ['uuid', 'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF', 'ffffffff-ffff-ffff-ffff-ffffffffffff'],
  ['binary', '\\x00ff22', 'AP8i'],
  ['binary', '\\x', ''],
  ['json', '{"a": 1.10}', '{"a": 1.10}'],
]

it('a key is told as reads tell its values, and as the source wrote it where they tell none such', () => {
  for (const [type, csv, told] of CASES) {
    const schema = { columns: [{ name: 'k', type, nullable: false }], primaryKey: ['k'] }
    assert.deepEqual(toldKey({ k: csv, gone: csv }, schema), { k: told, gone: csv }, `${type} ${csv}`)
  }
  assert.equal(toldKey(null, { columns: [], primaryKey: [] }), null)
})
