/**
 * Which class a column probably has, by what it is called. A proposal, said with its reason, and no more: values are not
 * looked at. It errs on the side of the mask, since a class that is too much is seen at once and one that lacks is not.
 */
import { type LogicalType, typeName } from '@sluice/sdk'

export interface GuessedClass {
  readonly classification: string
  /** Of the name: what led to it. */
  readonly word: string
}

interface Rule {
  readonly classification: string
  /** Words as they stand in a name one after another; one of them at its very end: `$`. */
  readonly words: readonly string[]
  /** Types that hold such values, besides strings. */
  readonly types?: readonly string[]
}

/** In this order: an address of e-mail is none of a street. */
const RULES: readonly Rule[] = [
  {
    classification: 'pii.credential',
    words: ['password', 'passwd', 'pwd', 'passwort', 'kennwort', 'mot de passe', 'contrasena', 'senha', 'wachtwoord'],
  },
  { classification: 'pii.credential', words: ['access token', 'refresh token', 'api key', 'secret', 'password hash'] },
  {
    classification: 'pii.email',
    words: ['email', 'emails', 'e mail', 'mail', 'mail address', 'mailadresse', 'correo', 'courriel', 'epost'],
    types: ['json'],
  },
  {
    classification: 'pii.ip_address',
    words: ['ip', 'ip address', 'ip addr', 'ipaddress', 'ipaddr', 'ipv4', 'ipv6', 'remote addr', 'mac address'],
  },
  {
    classification: 'pii.bank_account',
    words: [
      ...['iban', 'bban', 'bank account', 'account number', 'account no', 'kontonummer', 'bankkonto', 'kontonr'],
      ...['numero de compte', 'numero cuenta', 'rekeningnummer', 'numero conto', 'sort code', 'routing number'],
    ],
    types: ['long', 'integer', 'decimal'],
  },
  {
    classification: 'pii.card',
    words: [
      ...['card number', 'card no', 'credit card', 'creditcard', 'cc number', 'cardnumber', 'kreditkarte'],
      ...['kreditkartennummer', 'carte bancaire', 'tarjeta', 'cvv', 'cvc'],
    ],
    types: ['long', 'integer', 'decimal'],
  },
  {
    classification: 'pii.national_id',
    words: [
      ...['ssn', 'social security', 'social security number', 'national id', 'nationalid', 'tax id', 'taxid', 'tin'],
      ...['passport', 'passport number', 'passport no', 'drivers license', 'driver license', 'driving licence'],
      ...['sozialversicherungsnummer', 'svnr', 'steuernummer', 'steuer id', 'ausweisnummer', 'reisepass', 'nino'],
      ...['nif', 'nie', 'dni', 'cpf', 'cnp', 'pesel', 'bsn', 'nir', 'insee', 'codice fiscale', 'curp', 'aadhaar'],
      ...['personnummer', 'fodselsnummer', 'cpr', 'hetu', 'ahv', 'numero securite sociale', 'rodne cislo'],
    ],
    types: ['long', 'integer', 'decimal'],
  },
  {
    classification: 'pii.birth_date',
    words: [
      ...['dob', 'birth date', 'birthdate', 'date of birth', 'birthday', 'born', 'born on', 'year of birth'],
      ...['birth year', 'geburtsdatum', 'geburtstag', 'geboren', 'date naissance', 'date de naissance'],
      ...['fecha nacimiento', 'fecha de nacimiento', 'data nascita', 'data di nascita', 'geboortedatum'],
      ...['data nascimento', 'data de nascimento', 'data urodzenia', 'fodelsedatum', 'fodselsdato'],
    ],
    types: ['date', 'timestamp', 'timestamptz', 'integer', 'long'],
  },
  {
    classification: 'pii.phone',
    words: [
      ...['phone', 'phones', 'phone number', 'phone no', 'telephone', 'telefon', 'telefonnummer', 'tel', 'telefono'],
      ...['telefone', 'telefoon', 'mobile', 'mobile number', 'mobil', 'mobilnummer', 'handy', 'handynummer', 'cell'],
      ...['cellphone', 'cell phone', 'celular', 'movil', 'portable', 'gsm', 'msisdn', 'fax', 'fax number', 'faxnummer'],
    ],
    types: ['long', 'integer', 'decimal', 'json'],
  },
  {
    classification: 'pii.name',
    words: [
      ...['first name', 'firstname', 'last name', 'lastname', 'full name', 'fullname', 'surname', 'given name'],
      ...['givenname', 'family name', 'familyname', 'middle name', 'maiden name', 'forename', 'fname', 'lname'],
      ...['vorname', 'nachname', 'zuname', 'geburtsname', 'prenom', 'nom', 'nom de famille', 'apellido', 'apellidos'],
      ...['nombre', 'nombres', 'cognome', 'nome', 'sobrenome', 'voornaam', 'achternaam', 'imie', 'nazwisko'],
      ...['fornavn', 'etternavn', 'efternavn', 'fornamn', 'efternamn', 'etunimi', 'sukunimi', 'jmeno', 'prijmeni'],
      ...['person name', 'customer name', 'contact name', 'display name', 'holder name', 'cardholder', 'kundenname'],
    ],
  },
  {
    classification: 'pii.address',
    words: [
      ...['address', 'address line', 'street', 'street address', 'addr', 'adresse', 'anschrift', 'strasse'],
      ...['hausnummer', 'house number', 'direccion', 'calle', 'indirizzo', 'via', 'endereco', 'rua', 'adres', 'straat'],
      ...['ulica', 'gata', 'gatuadress', 'rue', 'zip', 'zip code', 'zipcode', 'postcode', 'postal code', 'postalcode'],
      ...['plz', 'postleitzahl', 'code postal', 'codigo postal', 'cap', 'cep'],
    ],
    types: ['json', 'integer'],
  },
  {
    classification: 'pii.location',
    words: ['latitude', 'longitude', 'lat', 'lon', 'lng', 'geolocation', 'gps', 'breitengrad', 'laengengrad'],
    types: ['double', 'float', 'decimal', 'json'],
  },
  {
    classification: 'pii.special',
    words: [
      ...['religion', 'ethnicity', 'ethnic origin', 'race', 'sexual orientation', 'diagnosis', 'disability'],
      ...['konfession', 'blood type', 'blutgruppe', 'diagnose'],
    ],
  },
  {
    classification: 'pii.gender',
    words: ['gender', 'sex', 'geschlecht', 'sexe', 'sexo', 'sesso', 'salutation', 'anrede'],
  },
  {
    classification: 'pii.identifier',
    words: ['username', 'user name', 'login', 'login name', 'benutzername', 'nickname', 'utilisateur', 'usuario'],
  },
]

/** A name that ends so tells of the value, and does not hold it. */
const ABOUT = new Set([
  ...['status', 'state', 'type', 'kind', 'count', 'verified', 'confirmed', 'template', 'subject', 'provider', 'opt'],
  ...['enabled', 'format', 'language', 'consent', 'sent', 'valid', 'validated', 'policy', 'category', 'preference'],
  ...['source', 'changed', 'updated', 'created', 'at', 'score', 'rank', 'length', 'size', 'total', 'rate', 'amount'],
  ...['anzahl', 'typ', 'art'],
])

/** Tables of people: what is called `name` there is a person's. */
const PEOPLE =
  /(^|_)(people|persons?|users?|customers?|clients?|employees?|members?|patients?|contacts?|staff|students?|drivers?|guests?|subscribers?|leads?|kunden?|kunde|personen|nutzer|benutzer|mitarbeiter|mitglieder|patienten|personnes?|utilisateurs?|personas?|clientes?|empleados?|usuarios?|clienti|persone|utenti|klanten|gebruikers|medewerkers|pessoas?|klienci|osoby)($|_)/

/** @param table what the column's table is called */
export function guessedClass(name: string, type: LogicalType, table: string): GuessedClass | null {
  const words = wordsOf(name)
  const kind = typeName(type)
  if (words.length === 0 || ABOUT.has(words.at(-1) as string)) return null
  if (isOfPerson(words, table) && kind === 'string') return { classification: 'pii.name', word: 'name' }
  for (const { classification, words: known, types = [] } of RULES) {
    if (kind !== 'string' && !types.includes(kind)) continue
    const word = longest(known.filter((one) => holds(words, one)))
    if (word !== null) return { classification, word }
  }
  return null
}

function isOfPerson(words: readonly string[], table: string): boolean {
  const last = words.join(' ')
  return (last === 'name' || last === 'names') && PEOPLE.test(wordsOf(table).join('_'))
}

const longest = (words: readonly string[]): string | null =>
  words.reduce<string | null>((best, word) => (best === null || word.length > best.length ? word : best), null)

/** Whether the words stand in the name one after another, whole. */
function holds(words: readonly string[], wanted: string): boolean {
  return ` ${words.join(' ')} `.includes(` ${wanted} `)
}

const LONGEST = 255

/** `CustomerE-Mail2` → customer, e, mail. Accents are left out: `prénom` → prenom. */
export function wordsOf(name: string): readonly string[] {
  return plainLetters(name.slice(0, LONGEST))
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .replaceAll(/ipv([46])/g, ' ipv$1 ')
    .split(/[^a-z0-9]+/)
    .map((word) => (/^ipv[46]$/.test(word) ? word : word.replace(/\d+$/, '')))
    .filter((word) => word !== '')
}

const LETTERS: Readonly<Record<string, string>> = {
  ß: 'ss',
  ø: 'o',
  Ø: 'O',
  æ: 'ae',
  Æ: 'Ae',
  œ: 'oe',
  ł: 'l',
  Ł: 'L',
  đ: 'd',
  ð: 'd',
  þ: 'th',
  ı: 'i',
}

/** Latin letters without what stands above and below them; all others as they are. */
export function plainLetters(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[ßøØæÆœłŁđðþı]/g, (letter) => LETTERS[letter] ?? letter)
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
}
