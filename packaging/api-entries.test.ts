import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareApi } from './api-entries.ts'

const FORMER = `export interface ServingStore {
    read(plan: ReadPlan): void;
    digest?(): Promise<{
        readonly rowCount: number;
    }>;
}
export interface Host {
    readonly clock: Clock;
}
export declare function tenantOf(scope: TenantScope): string;`

const breaking = (from: string, to: string) => compareApi(FORMER, FORMER.replace(from, to)).breaking

test('what is gone or other than it was breaks plugins', () => {
  assert.equal(breaking('export declare function tenantOf(scope: TenantScope): string;', '').length, 1)
  assert.equal(breaking('read(plan: ReadPlan): void;', 'read(plan: ReadPlan, x: number): void;').length, 2)
  assert.equal(breaking('readonly rowCount: number;', '').length, 1)
})

test('another version breaks nobody, and no version does', () => {
  const versioned = (line: string) => `${FORMER}\n${line}`
  const former = versioned('export declare const SDK_VERSION = "1.0.0";')
  assert.deepEqual(compareApi(former, versioned('export declare const SDK_VERSION = "1.1.0";')).breaking, [])
  assert.equal(compareApi(former, FORMER).breaking.length, 1)
})

test('a new hook breaks plugins where it is required, and a new gift of the host never does', () => {
  assert.equal(breaking('read(plan', 'close(): void;\n    read(plan').length, 1)
  assert.deepEqual(breaking('read(plan', 'close?(): void;\n    read(plan'), [])
  assert.deepEqual(breaking('readonly clock', 'readonly disk: Disk;\n    readonly clock'), [])
  assert.deepEqual(breaking('export declare', 'export interface New {\n    readonly a: number;\n}\nexport declare'), [])
})
