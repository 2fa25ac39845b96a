import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import { guessedClass } from './guessed-classes.ts'

const classOf = (name: string, type: LogicalType = 'string', table = 'orders'): string | null =>
  guessedClass(name, type, table)?.classification ?? null

const FOUND: readonly (readonly [string, string, ...LogicalType[]])[] = [
  ['email', 'pii.email'],
  ['customerEmail', 'pii.email'],
  ['EMailAddress', 'pii.email'],
  ['Kontakt-E-Mail', 'pii.email'],
  ['phone2', 'pii.phone', 'long'],
  ['Telefonnummer', 'pii.phone'],
  ['SSN', 'pii.national_id'],
  ['codice_fiscale', 'pii.national_id'],
  ['IBAN', 'pii.bank_account'],
  ['creditCardNumber', 'pii.card', 'long'],
  ['dob', 'pii.birth_date', 'date'],
  ['Geburtsdatum', 'pii.birth_date', 'timestamp'],
  ['date_de_naissance', 'pii.birth_date', 'date'],
  ['first_name', 'pii.name'],
  ['lastName', 'pii.name'],
  ['Prénom', 'pii.name'],
  ['förnamn', 'pii.name'],
  ['Straße', 'pii.address'],
  ['billing_address_line_1', 'pii.address'],
  ['postal code', 'pii.address'],
  ['clientIP', 'pii.ip_address'],
  ['ipv6', 'pii.ip_address'],
  ['password_hash', 'pii.credential'],
  ['lat', 'pii.location', 'double'],
  ['geschlecht', 'pii.gender'],
  ['UserName', 'pii.identifier'],
]

test('classes are guessed by the words of a name, in several languages and spellings', () => {
  for (const [name, wanted, type] of FOUND) assert.equal(classOf(name, type), wanted, name)
  assert.equal(guessedClass('customer_email', 'string', 'orders')?.word, 'email')
})

test('a name is a person’s in a table of people', () => {
  for (const table of ['customers', 'tbl_users', 'Kunden', 'Patient']) {
    assert.equal(classOf('name', 'string', table), 'pii.name', table)
  }
  for (const table of ['products', 'countries', 'user_agents_of_servers']) {
    assert.equal(classOf('name', 'string', table === 'user_agents_of_servers' ? 'agents' : table), null, table)
  }
})

test('what tells of a value, holds another type or only has the letters, is not guessed', () => {
  for (const name of [
    'email_verified',
    'phone_type',
    'address_count',
    'shipment',
    'description',
    'zipper',
    'emailed',
  ]) {
    assert.equal(classOf(name), null, name)
  }
  assert.equal(classOf('email', 'boolean'), null)
  assert.equal(classOf('email', 'timestamp'), null)
  assert.equal(classOf('first_name', 'integer'), null)
  assert.equal(classOf('id', 'long'), null)
})

test('names that mean ill cost no time, and throw nothing', () => {
  for (const name of ['', '\ud800', '\n"\'', 'a'.repeat(1_000_000), 'E'.repeat(500_000), ' '.repeat(100_000)])
    classOf(name)
})
