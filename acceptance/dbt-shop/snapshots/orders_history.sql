{% snapshot orders_history %}
{{ config(unique_key='id', strategy='check', check_cols=['status']) }}
select * from {{ source('shop', 'orders') }}
{% endsnapshot %}
